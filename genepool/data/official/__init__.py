"""CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST from the files that their authors publish."""
