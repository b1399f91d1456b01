@header@import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--who", default="world")
print(f"Hello, {parser.parse_args().who}!")
