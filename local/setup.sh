#!/bin/sh
# Installs what is missing on a fresh machine: system packages, then the npm packages of the lock file.
# Usage: local/setup.sh [--tests] [--cluster] [debian-package...]. Safe to run again; does nothing when nothing is missing.
# --tests: also the browser and the servers that `make test` uses where they are installed.
# --cluster: also what `npm run test:cluster` takes from Debian; Go is not among it, a release has too old a one.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

tests="chromium-headless-shell nats-server postgresql-15 radosgw ceph-mon ceph-osd ceph-mgr ceph-common curl jq"
cluster="openssl runc containernetworking-plugins iptables conntrack iproute2 buildah mmdebstrap"
packages=""
for option in "$@"; do
  case "$option" in
    --tests) packages="$packages $tests" ;;
    --cluster) packages="$packages $cluster" ;;
    -*) say "Unknown option $option"; exit 2 ;;
    *) packages="$packages $option" ;;
  esac
done

missing=""
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need ffmpeg ffmpeg
need ffprobe ffmpeg
need vips libvips-tools
need node nodejs
need npm npm
# Titles and captions of highlights. A system without Debian's packages has fonts of its own.
if command -v dpkg-query >/dev/null 2>&1; then
  packages="fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji$packages"
fi
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done

if [ -n "$missing" ]; then
  if command -v apt-get >/dev/null 2>&1; then
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
      command -v sudo >/dev/null 2>&1 || { say "Please install as root: apt-get install$missing"; exit 1; }
      as_root="sudo"
    fi
    say "Installing$missing"
    $as_root apt-get update -qq
    # A release may lack one of the servers: the tests of the others need the rest.
    wanted="$missing"
    missing=""
    for package in $wanted; do
      case " $tests " in
        *" $package "*) apt-cache show "$package" >/dev/null 2>&1 || { say "This release has no package $package"; continue; } ;;
      esac
      missing="$missing $package"
    done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
  elif command -v brew >/dev/null 2>&1; then
    brew install ffmpeg vips node
  else
    say "Please install these first:$missing"
    exit 1
  fi
fi

# The system's Node may be older than the one the project runs on: npm only needs it to install the right one.
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ] || [ ! -x node_modules/.bin/node ]; then
  say "Installing npm packages"
  npm ci --no-audit --no-fund --loglevel=error
fi
PATH="$PWD/node_modules/.bin:$PATH" node -e '
  const [major, minor] = process.versions.node.split(".").map(Number)
  if (major < 22 || (major === 22 && minor < 19)) {
    console.error(`Node ${process.versions.node} is too old: 22.19 or newer is needed, and npm did not install one (are install scripts blocked?)`)
    process.exit(1)
  }'
