"""Networks: images in, a trained and measured model out. The only folder that may import torch."""
