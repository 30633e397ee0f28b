#!/bin/sh
# Installs what is missing on a fresh machine: system packages, and beside them the npm packages of the lock file.
# Usage: local/setup.sh [--demo] [--tests] [--cluster] [debian-package...]. Safe to run again; does nothing when nothing is
# missing.
# --demo: of the npm packages only those that the platform runs on. A run without it adds the tools of tests and checks.
# --tests: also the browser and the servers that `make test` uses where they are installed.
# --cluster: also what `npm run test:cluster` takes from Debian; Go is not among it, a release has too old a one.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

tests="chromium-headless-shell nats-server postgresql-15 radosgw ceph-mon ceph-osd ceph-mgr ceph-common curl jq"
cluster="openssl runc containernetworking-plugins iptables conntrack iproute2 buildah mmdebstrap"
# What local/ imports and the programs of the image do not, and the Node of the Makefile. test/local/setup.ts compares.
platform="node embedded-postgres hls.js htm mailparser oidc-provider preact"
packages=""
wanted=all
for option in "$@"; do
  case "$option" in
    --demo) wanted=platform ;;
    --tests) packages="$packages $tests" ;;
    --cluster) packages="$packages $cluster" ;;
    -*) say "Unknown option $option"; exit 2 ;;
    *) packages="$packages $option" ;;
  esac
done

first=""
missing=""
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need node nodejs
need npm npm
first="$missing"
missing=""
need ffmpeg ffmpeg
need ffprobe ffmpeg
need vips libvips-tools
# Titles and captions of highlights. A system without Debian's packages has fonts of its own.
if command -v dpkg-query >/dev/null 2>&1; then
  packages="fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji$packages"
fi
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done

apt_install() {
  # shellcheck disable=SC2086
  [ -z "$1" ] || $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $1 >/dev/null
}
later=""
if [ -n "$first$missing" ]; then
  if command -v apt-get >/dev/null 2>&1; then
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
      command -v sudo >/dev/null 2>&1 || { say "Please install as root: apt-get install$first$missing"; exit 1; }
      as_root="sudo"
    fi
    say "Installing$first$missing"
    $as_root apt-get update -qq
    # npm then works while apt installs the rest.
    apt_install "$first"
    # A release may lack one of the servers: the tests of the others need the rest.
    for package in $missing; do
      case " $tests " in
        *" $package "*) apt-cache show "$package" >/dev/null 2>&1 || { say "This release has no package $package"; continue; } ;;
      esac
      later="$later $package"
    done
  elif command -v brew >/dev/null 2>&1; then
    brew install ffmpeg vips node
  else
    say "Please install these first:$first$missing"
    exit 1
  fi
fi

# npm writes its record last, so a record means that all of it is there. It is renamed before anything is added: what an
# interruption leaves is then not taken for complete.
record=node_modules/.package-lock.json
# Its name while tools are added, which changes nothing of the platform.
before=node_modules/.package-lock.json.platform
has_platform() {
  # A lock file that has not changed says nothing about a package that became part of the platform.
  for name in $platform; do [ -d "node_modules/$name" ] || return 1; done
  [ -x node_modules/.bin/node ] && [ -f "$1" ] && [ ! package-lock.json -nt "$1" ]
}
installed=none
if has_platform "$record"; then
  installed=platform
  if grep -q '"node_modules/tap"' "$record"; then installed=all; fi
elif [ "$wanted" = platform ] && has_platform "$before"; then
  installed=platform
elif [ -d node_modules/tap ]; then
  # A new lock file: who had the tools keeps them.
  wanted=all
fi
quiet="--no-audit --no-fund --loglevel=error"
npm=""
# npm would end its step first, and change node_modules beside the next run. It has left no record, so nothing takes
# what is there for complete.
end_npm() {
  [ -n "$npm" ] || return 0
  trap '' INT TERM
  kill "$npm" 2>/dev/null || true
  sleep 1
  kill -9 "$npm" 2>/dev/null || true
  wait "$npm" 2>/dev/null || true
}
trap end_npm EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# --include=dev: whatever NODE_ENV or the npmrc of the user omit, the tools are wanted.
# The system's Node may be older than the one the project runs on: npm only needs it to install the right one.
# shellcheck disable=SC2086
case "$installed-$wanted" in
  none-all)
    say "Installing npm packages"
    rm -f "$before"
    npm ci --include=dev $quiet &
    npm=$!
    ;;
  none-platform)
    say "Installing the npm packages of the platform"
    rm -rf node_modules
    # shellcheck disable=SC2016
    versions=$(node -e '
      const { devDependencies: of } = require("./package.json")
      for (const name of process.argv.slice(1)) console.log(`${name}@${of[name]}`)' $platform)
    # As if they were no tools of development, and nothing is saved. npm asks the registry for these few again, in the
    # exact versions of package.json; what they depend on comes from the lock file.
    npm install --no-save --omit=dev --save-prod $quiet $versions &
    npm=$!
    ;;
  platform-all)
    say "Installing the other npm packages"
    mv "$record" "$before"
    # Not `npm ci`, which removes everything first: a platform may be running.
    npm install --no-save --include=dev $quiet &
    npm=$!
    ;;
esac
apt_install "$later"
if [ -n "$npm" ]; then
  wait "$npm"
  npm=""
  rm -f "$before"
fi
PATH="$PWD/node_modules/.bin:$PATH" node -e '
  const [major, minor] = process.versions.node.split(".").map(Number)
  if (major < 22 || (major === 22 && minor < 19)) {
    console.error(`Node ${process.versions.node} is too old: 22.19 or newer is needed, and npm did not install one (are install scripts blocked?)`)
    process.exit(1)
  }'
