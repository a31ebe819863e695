"""The official data sets, looked up in the user's data folder, then among earlier downloads, else downloaded."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from genepool.data.files import RemoteFile, cache_folder, data_folder, download, stamp
from genepool.data.official.files import CifarLayout, IdxLayout, OfficialFiles, find_official
from genepool.data.source import Development, Images, Listing, Progress
from genepool.errors import DataError, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialSet:
    name: str
    classes: tuple[str, ...]
    flip: bool
    layout: CifarLayout | IdxLayout
    folders: tuple[str, ...]  # possible names of the folder with the files
    remote: tuple[RemoteFile, ...]
    archive: tuple[str, str] | None = None  # tar file's name and the folder inside, if the files come as one archive

    def find(self, data_dir: Path | None) -> OfficialFiles | None:
        given = data_folder(data_dir)
        if given is not None and (found := self._below(given, self.folders)) is not None:
            return found
        if all((self._downloads / file.name).is_file() for file in self.remote):
            return self._below(self._downloads.parent, (self.name,))
        return None

    def fetch(self, progress: Progress | None = None) -> Path:
        for file in self.remote:
            if not (self._downloads / file.name).is_file():
                download(self._mirrored(file), self._downloads, progress)
        return self._downloads

    def open(self, data_dir: Path | None, progress: Progress | None) -> OfficialSource:
        if (files := self.find(data_dir)) is None:
            self.fetch(progress)
            if (files := self.find(data_dir)) is None:
                raise DataError(f"The download of '{self.name}' in '{shown(self._downloads)}' was removed; try again.")
        return OfficialSource(self, files)

    @property
    def _downloads(self) -> Path:
        return cache_folder() / "downloads" / self.name

    def _below(self, root: Path, folders: tuple[str, ...]) -> OfficialFiles | None:
        names = (*self.layout.train, *self.layout.test)
        return find_official(root, folders=folders, names=names, archive=self.archive)

    def _mirrored(self, file: RemoteFile) -> RemoteFile:
        """Put the user's own mirror first, if there is one; the digest makes any mirror trustworthy."""
        mirror = os.environ.get("GENEPOOL_MIRROR")
        own = (f"{mirror.rstrip('/')}/{self.name}/{file.name}",) if mirror else ()
        return RemoteFile(name=file.name, md5=file.md5, urls=own + file.urls)


class OfficialSource:
    def __init__(self, published: OfficialSet, files: OfficialFiles) -> None:
        self.name, self.classes, self.flip = published.name, published.classes, published.flip
        self._layout, self._files = published.layout, files

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(map(stamp, self._files.files())).encode()).hexdigest()

    def development(self) -> Development:
        return Development(images=self._part(self._layout.train))

    def held_out(self) -> Images:
        return self._part(self._layout.test)

    def _part(self, names: tuple[str, ...]) -> Images:
        return self._layout.decode(self._files.read(names, self._layout.size_of))


CIFAR_ADDRESSES = ("https://www.cs.toronto.edu/~kriz/",)
MNIST_ADDRESSES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
FASHION_ADDRESSES = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)

FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CIFAR_10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_100_CLASSES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish",
    "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion",
    "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange",
    "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine",
    "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk",
    "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank",
    "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale",
    "willow_tree", "wolf", "woman", "worm",
)  # fmt: skip


def _remote(name: str, md5: str, addresses: tuple[str, ...] = CIFAR_ADDRESSES) -> RemoteFile:
    return RemoteFile(name=name, md5=md5, urls=tuple(address + name for address in addresses))


def _idx_files(addresses: tuple[str, ...], digests: tuple[str, str, str, str]) -> tuple[RemoteFile, ...]:
    names = (*IdxLayout().train, *IdxLayout().test)
    return tuple(_remote(f"{name}.gz", md5, addresses) for name, md5 in zip(names, digests, strict=True))


CIFAR_10_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_10 = OfficialSet(
    name="cifar-10",
    classes=CIFAR_10_CLASSES,
    flip=True,
    layout=CifarLayout(train=CIFAR_10_FILES, test=("test_batch.bin",), train_records=10_000, label_bytes=1, classes=10),
    folders=("cifar-10-batches-bin", "cifar-10"),
    remote=(_remote("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
    archive=("cifar-10-binary.tar.gz", "cifar-10-batches-bin"),
)
CIFAR_100 = OfficialSet(
    name="cifar-100",
    classes=CIFAR_100_CLASSES,
    flip=True,
    layout=CifarLayout(train=("train.bin",), test=("test.bin",), train_records=50_000, label_bytes=2, classes=100),
    folders=("cifar-100-binary", "cifar-100"),
    remote=(_remote("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
    archive=("cifar-100-binary.tar.gz", "cifar-100-binary"),
)
MNIST_DIGESTS = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c",
)  # fmt: skip
MNIST = OfficialSet(
    name="mnist",
    classes=tuple("0123456789"),
    flip=False,
    layout=IdxLayout(),
    folders=("mnist", "MNIST", "MNIST/raw"),
    remote=_idx_files(MNIST_ADDRESSES, MNIST_DIGESTS),
)
FASHION_DIGESTS = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310",
)  # fmt: skip
FASHION_MNIST = OfficialSet(
    name="fashion-mnist",
    classes=FASHION_CLASSES,
    flip=True,
    layout=IdxLayout(),
    folders=("fashion-mnist", "FashionMNIST", "FashionMNIST/raw"),
    remote=_idx_files(FASHION_ADDRESSES, FASHION_DIGESTS),
)


def _listing(
    published: OfficialSet, *, images: tuple[int, int, int], image: tuple[int, int, int], licence: str
) -> Listing:
    def find(data_dir: Path | None) -> Path | None:
        files = published.find(data_dir)
        return None if files is None else files.place

    return Listing(
        name=published.name,
        train=images[0],
        validation=images[1],
        test=images[2],
        height=image[0],
        width=image[1],
        channels=image[2],
        classes=len(published.classes),
        licence=licence,
        open=published.open,
        find=find,
        fetch=published.fetch,
    )


LISTINGS = (
    _listing(CIFAR_10, images=(45_000, 5_000, 10_000), image=(32, 32, 3), licence="none stated by its authors"),
    _listing(CIFAR_100, images=(45_000, 5_000, 10_000), image=(32, 32, 3), licence="none stated by its authors"),
    _listing(MNIST, images=(54_000, 6_000, 10_000), image=(28, 28, 1), licence="CC BY-SA 3.0"),
    _listing(FASHION_MNIST, images=(54_000, 6_000, 10_000), image=(28, 28, 1), licence="MIT, 2017 Zalando SE"),
)
