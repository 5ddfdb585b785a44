# An image of the program alone: to be run, or to copy it from.
#
#   docker build -t pawl .
#   docker run --rm -e PAWL_URL=redis://lock.example.com pawl ls
#
# In the image of a command:
#
#   COPY --from=pawl /usr/local/bin/pawl /usr/local/bin/pawl
#   ENTRYPOINT ["pawl", "run", "nightly", "--"]

FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/pawl ./cmd/pawl

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/pawl /usr/local/bin/pawl
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/pawl"]
