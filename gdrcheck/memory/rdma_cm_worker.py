"""The rdma_cm child: ``python3 -m gdrcheck.memory.rdma_cm_worker``. ``cm_protocol`` tells its part.

Requests come on stdin, replies go to stdout, the step that is being done goes to stderr. The end of
stdin ends the process.
"""

from __future__ import annotations

import os
from typing import BinaryIO

# Read when numpy is imported: its linear algebra threads would only cost start-up time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pydantic import BaseModel

from gdrcheck.gpu.session import Session
from gdrcheck.memory import child
from gdrcheck.memory.rdma_cm import CmExchange
from gdrcheck.verbs.cm_protocol import Go, Prepare, Request, RequestLine
from gdrcheck.verbs.errors import VerbsError


class CmWorker:
    """The state of the child: the GPUs that are open, and the exchange that is prepared."""

    def __init__(self) -> None:
        self._session = Session()
        self._exchange: CmExchange | None = None

    def handle(self, request: Request) -> BaseModel:
        """The result of the command. ProbeError if it cannot be done; nothing is prepared then."""
        if isinstance(request, Prepare):
            self._undo()
            self._exchange = CmExchange(request, self._session)
            return self._exchange.prepared()
        return self._go(request)

    def close(self) -> None:
        """Undo everything, the last first."""
        try:
            self._undo()
        finally:
            self._session.close()

    def _go(self, request: Go) -> BaseModel:
        if self._exchange is None:
            raise VerbsError("nothing is prepared", step="go")
        try:
            return self._exchange.go(request)
        finally:
            self._undo()

    def _undo(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until their stream ends, then undo everything."""
    child.serve(CmWorker(), RequestLine.model_validate_json, requests, replies)


if __name__ == "__main__":
    child.main(serve)
