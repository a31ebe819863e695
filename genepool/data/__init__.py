"""Images: data sets by name, folders of images, `.npz` files and arrays. No torch.

source         the interface of a source of images; images converted and normalised by given numbers
catalogue      data sets by name
settings       the settings of the images
dataset        the prepared, memory-mapped images that training reads
splits         stratified splits; channel means
arrays         NumPy arrays and `.npz` files
image_folder   a folder of images
image_files    decoding one image file
fashion_mini/  the small data set shipped with Genepool
official/      CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST
files          folders for data sets, verified downloads, atomic writes
free_memory    whether images fit into memory
"""

from typing import TYPE_CHECKING

from genepool.registry import lazy_names

if TYPE_CHECKING:
    from genepool.data.arrays import ArraySource, NpzSource, pixel_scale, plain_labels, store_arrays, to_pixels
    from genepool.data.catalogue import SOURCES, open_source
    from genepool.data.dataset import Dataset, data_digest, portable, prepare
    from genepool.data.files import data_folder, require_writable, save_file, write_atomic
    from genepool.data.free_memory import available_memory
    from genepool.data.image_files import read_header, read_pixels
    from genepool.data.image_folder import DESKTOP_LITTER, FolderSource
    from genepool.data.settings import DataSettings
    from genepool.data.source import AdaptedSource, Development, Images, Listing, Source, converted, original

__all__ = [
    "Source", "Development", "Images", "SOURCES", "Listing", "open_source", "DataSettings", "ArraySource",
    "FolderSource", "NpzSource", "pixel_scale", "plain_labels", "store_arrays", "to_pixels", "read_header",
    "read_pixels", "DESKTOP_LITTER", "AdaptedSource", "converted", "original",
    # prepared images
    "Dataset", "prepare", "data_digest", "portable",
    # files and memory
    "available_memory", "data_folder", "require_writable", "save_file", "write_atomic",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "arrays": ["ArraySource", "NpzSource", "pixel_scale", "plain_labels", "store_arrays", "to_pixels"],
        "catalogue": ["SOURCES", "open_source"],
        "dataset": ["Dataset", "data_digest", "portable", "prepare"],
        "files": ["data_folder", "require_writable", "save_file", "write_atomic"],
        "free_memory": ["available_memory"],
        "image_files": ["read_header", "read_pixels"],
        "image_folder": ["DESKTOP_LITTER", "FolderSource"],
        "settings": ["DataSettings"],
        "source": ["AdaptedSource", "Development", "Images", "Listing", "Source", "converted", "original"],
    },
)
