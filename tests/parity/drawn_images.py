"""Image files made at random for the parity tests: every format, depth and orientation that is read, and sizes at which resizing
turns over. Files only; what they should become is the peer's to say."""
import io
import random
import struct

import numpy as np
import PIL.Image
import PIL.ImageFile

ORIENTATION = 0x0112
PIL.ImageFile.MAXBLOCK = 1 << 20  # Pillow's own is too small for a tiny progressive JPEG of noise
# Half-way roundings and exact multiples of 28 and 32, tiny and thin images.
SIZES = [(1, 1), (1, 7), (9, 1), (28, 28), (42, 70), (98, 126), (32, 32), (48, 80), (16, 2000), (200, 1), (1, 200), (111, 777),
         (56, 84), (640, 480), (500, 375), (13, 1999)]


def draw_size(draw):
    if draw.random() < 0.25:
        return draw.choice(SIZES)
    longest = draw.choice([40, 120, 400])
    return draw.randint(1, longest), draw.randint(1, longest)


def pixels(draw, size, bands):
    """Noise over a gradient, so that both flat and rough areas are there."""
    noise = np.random.default_rng(draw.randrange(2**32))
    width, height = size
    ramp = np.add.outer(np.arange(height), np.arange(width))[..., None] * noise.uniform(0.1, 2, bands)
    rough = noise.integers(0, 256, (height, width, bands)) * (noise.random((height, width, 1)) < draw.choice([0.05, 1]))
    return ((ramp + rough) % 256).astype(np.uint8)


def encoded(image, kind, orientation=None, **options):
    if orientation is not None:
        exif = image.getexif()
        exif[ORIENTATION] = orientation
        options["exif"] = exif
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rgb(draw, size):
    return PIL.Image.fromarray(pixels(draw, size, 3))


def jpeg(draw, size):
    image = rgb(draw, size) if draw.random() < 0.85 else PIL.Image.fromarray(pixels(draw, size, 1)[..., 0])
    return encoded(image, "JPEG", draw.choice([None, None, *range(1, 9)]), quality=draw.choice([30, 75, 95]),
                   subsampling=draw.choice([0, 1, 2]), progressive=draw.random() < 0.4)


def png(draw, size):
    kind = draw.choice(["RGB", "RGB", "RGBA", "L", "LA", "P", "1"])
    bands = {"RGB": 3, "RGBA": 4, "L": 1, "LA": 2, "P": 3, "1": 1}[kind]
    values = pixels(draw, size, bands)
    image = PIL.Image.fromarray(values[..., 0] if bands == 1 else values)
    if kind == "P":
        image = image.quantize(draw.choice([2, 7, 16, 200]))
    elif kind == "1":
        image = image.convert("1")
    transparent = {"transparency": 1} if kind == "P" and draw.random() < 0.3 else {}
    return encoded(image, "PNG", draw.choice([None, None, *range(1, 9)]), **transparent)


def webp(draw, size):
    bands = draw.choice([3, 3, 4])
    return encoded(PIL.Image.fromarray(pixels(draw, size, bands)), "WEBP", quality=draw.choice([40, 90]),
                   lossless=draw.random() < 0.4)


def bmp(draw, size):
    kind = draw.choice(["RGB", "P", "L", "1"])
    if kind == "RGB" and draw.random() < 0.3:
        return bmp_of_16_bits(draw, size)
    image = rgb(draw, size)
    return encoded(image.quantize(draw.choice([16, 256])) if kind == "P" else image.convert(kind), "BMP")


def bmp_of_16_bits(draw, size):
    """From above, 5 bits each or 5, 6, 5 by masks; Pillow does not write them."""
    width, height = size
    masks = draw.choice([(), (0xF800, 0x7E0, 0x1F)])
    values = np.random.default_rng(draw.randrange(2**32)).integers(0, 65536, (height, (width + 1) // 2 * 2), dtype=np.uint16)
    head = struct.pack("<IiiHHIIiiII", 40, width, -height, 1, 16, 3 if masks else 0, 0, 0, 0, 0, 0)
    offset = 14 + len(head) + 4 * len(masks)
    return (struct.pack("<2sIHHI", b"BM", offset + values.nbytes, 0, 0, offset) + head + struct.pack(f"<{len(masks)}I", *masks)
            + values.astype("<u2").tobytes())


def gif(draw, size):
    image = rgb(draw, size).quantize(draw.choice([2, 5, 64, 256]))
    more = {"transparency": 1} if draw.random() < 0.3 else {}
    if draw.random() < 0.3:
        more.update(save_all=True, append_images=[rgb(draw, size).quantize(16)])
    return encoded(image, "GIF", interlace=draw.random() < 0.5, **more)


def cmyk(draw, size):
    return encoded(PIL.Image.fromarray(pixels(draw, size, 4), "CMYK"), "JPEG", quality=90)


def sixteen_bits(draw, size):
    """Colours of 16 bits, which Pillow does not write."""
    import zlib
    width, height = size
    values = np.random.default_rng(draw.randrange(2**32)).integers(0, 65536, (height, width, 3)).astype(">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in values)

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0))
            + chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


KINDS = {"jpg": jpeg, "png": png, "webp": webp, "bmp": bmp, "gif": gif, "cmyk.jpg": cmyk, "16.png": sixteen_bits}


def draw_files(folder, count, seed=11):
    """Paths of `count` files; the common formats are the most."""
    draw, paths = random.Random(seed), []
    kinds = ["jpg"] * 6 + ["png"] * 6 + ["webp"] * 4 + ["bmp"] * 2 + ["gif"] * 2 + ["cmyk.jpg", "16.png"]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        size = SIZES[number // len(kinds) % len(SIZES)] if number % 3 == 0 else draw_size(draw)
        path = folder / f"{number:03}.{kind}"
        path.write_bytes(KINDS[kind](draw, size))
        paths.append(path)
    return paths
