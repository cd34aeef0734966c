"""An S3 server of our own, as a store of an organisation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

NAMES = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """The address of an empty bucket; the environment says where it is, as users have it."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        with patch.dict(os.environ, NAMES | {"AWS_ENDPOINT_URL": endpoint}):
            system = fs.S3FileSystem(endpoint_override=endpoint, allow_bucket_creation=True)
            system.create_dir(bucket)
            system.delete_dir_contents(bucket)  # servers of one process share their memory
            yield f"s3://{bucket}"
    finally:
        running.stop()
