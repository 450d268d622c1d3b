"""Runs Hugging Face's own library on a cache that mgrpo also uses (check.ts). The library downloads the files that the cache lacks. Prints, as
JSON, where each file is, and which models and warnings the library reports for the cache.

    python check.py <repository> <revision> <file>...
"""
import json
import sys

from huggingface_hub import hf_hub_download, scan_cache_dir

repository, revision, *files = sys.argv[1:]
found = {file: hf_hub_download(repository, file, revision=revision) for file in files}
cache = scan_cache_dir()
print(json.dumps({"found": found, "warnings": [str(warning) for warning in cache.warnings], "models": [repo.repo_id for repo in cache.repos]}))
