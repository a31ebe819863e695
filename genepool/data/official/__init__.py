"""CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST from the files that their authors publish.

sets     the four data sets: names, classes, addresses, digests
files    official files in a folder or inside their tar archive
formats  the binary layouts
"""
