#!/usr/bin/env python3
"""Draws pictures of coloured shapes and writes conversations about them, for examples/pictures/run.yaml:
draw.py FOLDER writes FOLDER/train.jsonl, FOLDER/unseen.jsonl and the pictures that they name. Needs nothing but Python."""
import json
import pathlib
import random
import struct
import sys
import zlib

COLOURS = {"red": (220, 30, 30), "green": (30, 170, 40), "blue": (30, 60, 220), "yellow": (235, 215, 40),
           "white": (250, 250, 250), "black": (10, 10, 10)}
SHAPES = {"circle": lambda x, y: x * x + y * y < 1,
          "square": lambda x, y: abs(x) < 0.8 and abs(y) < 0.8,
          "triangle": lambda x, y: abs(x) < (y + 1) / 2 and y < 0.8}
GRAY = 128


def write_png(path, width, height, pixels):
    """pixels: rows of (red, green, blue)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    raw = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def draw(path, colour, shape, random_numbers):
    width, height = random_numbers.choice([56, 84]), random_numbers.choice([56, 84])
    size = random_numbers.uniform(0.25, 0.4) * min(width, height)
    left, top = random_numbers.uniform(size, width - size), random_numbers.uniform(size, height - size)

    def pixel(x, y):
        inside = SHAPES[shape]((x - left) / size, (y - top) / size)
        noise = random_numbers.randint(-20, 20)
        return tuple(min(max(value + noise, 0), 255) for value in (COLOURS[colour] if inside else (GRAY,) * 3))
    write_png(path, width, height, [[pixel(x, y) for x in range(width)] for y in range(height)])


def write(folder, name, count, random_numbers):
    with open(folder / f"{name}.jsonl", "w") as lines:
        for i in range(count):
            colour, shape = random_numbers.choice(list(COLOURS)), random_numbers.choice(list(SHAPES))
            draw(folder / f"{name}-{i}.png", colour, shape, random_numbers)
            question = {"role": "user", "content": "<image>Which colour?"}
            record = {"messages": [question, {"role": "assistant", "content": colour}], "images": [f"{name}-{i}.png"]}
            lines.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: draw.py FOLDER")
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    numbers = random.Random(5)
    write(target, "train", 240, numbers)
    write(target, "unseen", 60, numbers)
