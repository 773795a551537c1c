#!/usr/bin/env python3
"""Holds Kubernetes manifests against the API's own types: kinds, fields, required ones. Prints what is wrong; exit 1.

Runs in the environment that python_env.sh makes.
usage: check_manifests.py FILE ...
"""

import sys

import kubernetes.client as k8s
import pydantic
import yaml


def check_document(document, path, wrong):
    group, _, version = document["apiVersion"].rpartition("/")
    kind = version.capitalize() + document["kind"]
    if group not in ("", "apps", "batch") or not hasattr(k8s, kind):
        wrong.append(f"{path}: no kind {document['kind']} in {document['apiVersion']}")
        return
    try:
        getattr(k8s, kind).model_validate(document)
    except pydantic.ValidationError as error:
        wrong += [f"{path}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]


def main():
    wrong = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for document in yaml.safe_load_all(file):
                check_document(document, path, wrong)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
