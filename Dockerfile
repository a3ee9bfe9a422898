# wean_fairseq in a container, as an ordinary user.
#
#   docker build -t wean-fairseq .                   CPU
#   docker build -t wean-fairseq --build-arg CUDA=1 .   with the CUDA libraries that torch needs (run it with --gpus all)
#   docker run -it wean-fairseq make quickstart      the quickstart, in the folder of the checkout
#   docker run -it -v "$PWD:/data" wean-fairseq bash    a shell in the environment; your files are in /data
FROM debian:bookworm-slim

RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates g++ git make python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home user
USER user
WORKDIR /home/user/wean_fairseq
COPY --chown=user . .

# Without CUDA, scripts/setup.sh takes the CPU build of torch. A configured index makes pip take the default build.
ARG CUDA=0
RUN if [ "$CUDA" = 1 ]; then export PIP_EXTRA_INDEX_URL=https://pypi.org/simple; fi; make setup
ENV PATH=/home/user/wean_fairseq/.venv/bin:$PATH
CMD ["bash"]
