"""CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST from the files that their authors publish.

sets     the four data sets: names, classes, addresses, digests
files    official files in a folder or in their tar archive, and their binary layouts
"""
