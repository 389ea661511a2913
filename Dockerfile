# The service with the embedded checkpoint, for a CPU (default, without PyTorch) or a CUDA device:
#   docker build -t dragoman:cpu .
#   docker build -t dragoman:cuda --build-arg VARIANT=cuda .
#   docker build -t dragoman:torch --build-arg EXTRAS=otel,torch .
# The last stage is the service.
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /src

# For the native library; the image for a CPU has no compiler.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends g++ \
  && rm -rf /var/lib/apt/lists/*

# Dependencies first: they change seldom, and their layers are reused when only the code changed.
# The writer of traces (otel) is among them: it cannot be added to a read-only image, and costs nothing when unused.
# torch is for a GPU, for networks that the native library does not compute, and for training. It comes from the
# default package index unless TORCH_INDEX_URL names another one. On x86 the default index holds the CUDA build, which
# runs on a CPU too but is several GB larger than a CPU-only one.
ARG VARIANT=cpu
ARG EXTRAS=otel
ARG TORCH_INDEX_URL=
COPY pyproject.toml constraints.txt ./
RUN case ",$VARIANT,$EXTRAS," in *,cuda,*|*,torch,*) \
    pip install --constraint constraints.txt ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch \
    && python -c "import sys, torch; sys.exit('$VARIANT' == 'cuda' and not torch.version.cuda and 'VARIANT=cuda, but this torch has no CUDA: set TORCH_INDEX_URL')";; \
  esac
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; extras = project['optional-dependencies']; print(*project['dependencies'], *(package for name in '$EXTRAS'.split(',') if name for package in extras[name]), sep='\n')" > dependencies.txt \
  && pip install --constraint constraints.txt --requirement dependencies.txt

COPY README.md LICENSE ./
COPY model model
COPY dragoman dragoman
COPY app app
# -P: the library belongs to the package that was just installed, not to the sources in this folder.
RUN pip install --no-deps . && python -P -m model.native.build && pip uninstall --yes setuptools pip


# The load generator, which the image of the service does not contain.   docker build -t dragoman:load --target load .
FROM python:${PYTHON_VERSION}-slim-bookworm AS load
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin dragoman \
  && install --directory --owner 10001 /results
COPY constraints.txt /tmp/
RUN pip install --constraint /tmp/constraints.txt click locust pydantic-core
WORKDIR /srv/load
COPY benchmarks benchmarks
ENV HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LOAD_OUTPUT=/results
USER 10001:10001
ENTRYPOINT ["python", "-m", "benchmarks.load"]


FROM python:${PYTHON_VERSION}-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin dragoman
# On a GPU, Triton compiles a small C module when the service starts, against the driver of the machine; its kernels
# need no compiler of the image. Both go to /tmp/.triton, so /tmp must allow execution.
ARG VARIANT=cpu
RUN if [ "$VARIANT" = cuda ]; then \
    apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; \
  fi
COPY --from=build /opt/venv /opt/venv
WORKDIR /srv/dragoman
COPY LICENSE deploy/healthcheck.py ./
COPY checkpoints checkpoints

# The service writes only below /tmp, so the root file system can be mounted read-only.
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DRAGOMAN_HOST=0.0.0.0 \
    DRAGOMAN_PORT=8000 \
    DRAGOMAN_DEVICE=${VARIANT}
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python", "/srv/dragoman/healthcheck.py"]
ENTRYPOINT ["dragoman"]
CMD ["serve"]
