import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, mkdir, mkdtemp, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/**
 * Copies of the installed `ffmpeg`, `ffprobe` and `vips` that start in a third of the time. Those of Debian look up each
 * symbol of two hundred libraries before they do anything, as they are linked with `-z now`; in the copies a function is
 * looked up when it is first called, which changes nothing else. The copy of ffmpeg also does without the libraries of its
 * screens, sound cards and some filters. Where a test used one of them, its ffmpeg would crash.
 */
const TOOLS = ['ffmpeg', 'ffprobe', 'vips']
const UNUSED: readonly [library: RegExp, needs: RegExp][] = [
  [/^libavdevice\.so/, /^lib(?!av|c\.so)/],
  [/^libavfilter\.so/, /^lib(pocketsphinx|sphinxbase|bs2b|lilv|rubberband|mysofa|flite|placebo|vidstab|zmq|OpenCL)/],
]
const COPIES = /^tools-[0-9a-f]{16}$/
/** Copying a library is worth it from this many functions on that it calls. */
const MANY_FUNCTIONS = 50
/** Not those of the C library, which find each other by other means. */
const C_LIBRARY = /^(ld-linux|lib(c|m|pthread|dl|rt))[.-]/

/** A folder for PATH with the copies, made once for the versions that are installed; undefined where that is not possible. */
export async function quickTools(cache: string): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined
  try {
    return await make(cache)
  } catch (error) {
    console.error(`ffmpeg and vips start as slowly as ever: ${(error as Error).message}`)
    return undefined
  }
}

async function make(cache: string): Promise<string> {
  const programs = new Map<string, string>()
  for (const tool of TOOLS) {
    const path = await installedTool(tool)
    if (path) programs.set(tool, path)
  }
  const libraries = await librariesOf([...programs.values()])
  const folder = join(cache, `tools-${await versionOf([...programs.values(), ...libraries.values()])}`)
  if (await exists(folder)) return folder
  await mkdir(cache, { recursive: true })
  const making = await mkdtemp(join(cache, 'making-'))
  try {
    for (const [tool, path] of programs) {
      const program = new Elf(await readFile(path))
      program.bindLazily()
      program.searchOwnFolder()
      await writeFile(join(making, tool), program.bytes, { mode: 0o755 })
    }
    for (const name of libraries.keys()) await copyLibrary(name, libraries, making)
    for (const tool of programs.keys())
      await promisify(execFile)(join(making, tool), [tool === 'vips' ? '--version' : '-version'])
    await rename(making, folder).catch(async (error: Error) => {
      // Another run may have made it meanwhile.
      if (!(await exists(folder))) throw error
    })
  } finally {
    await rm(making, { recursive: true, force: true })
  }
  return folder
}

/** Of the folders of PATH, but for those that this module has made. */
export async function installedTool(tool: string): Promise<string | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(folder, tool)
    if (!COPIES.test(basename(folder)) && (await exists(path))) return realpath(path)
  }
  return undefined
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

/** Of these files, and of what is made of them here. */
async function versionOf(files: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(await readFile(import.meta.filename))
  for (const file of files) {
    const { size, mtimeMs } = await stat(file)
    hash.update(JSON.stringify([file, size, mtimeMs]))
  }
  return hash.digest('hex').slice(0, 16)
}

async function copyLibrary(name: string, libraries: ReadonlyMap<string, string>, folder: string): Promise<void> {
  if (C_LIBRARY.test(name)) return
  const library = new Elf(await readFile(libraries.get(name) ?? ''))
  const unused = UNUSED.find(([of]) => of.test(name))?.[1]
  if (!unused && library.functions < MANY_FUNCTIONS) return
  library.bindLazily()
  if (unused) {
    const symbols = new Set<string>()
    for (const need of library.dropNeeds(unused))
      for (const symbol of new Elf(await readFile(libraries.get(need) ?? '')).exports()) symbols.add(symbol)
    library.dropData(symbols)
  }
  await writeFile(join(folder, name), library.bytes)
}

/** By the name under which the linker looks for it, the file. */
async function librariesOf(programs: readonly string[]): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const program of programs) {
    const { stdout } = await promisify(execFile)('ldd', [program])
    for (const [, name = '', path = ''] of stdout.matchAll(/(\S+) => (\/\S+)/g))
      found.set(basename(name), await realpath(path))
  }
  return found
}

/** Of elf(5). */
const PT = { LOAD: 1, DYNAMIC: 2, GNU_RELRO: 0x6474e552 }
const SHT_DYNSYM = 11
const DT = {
  ...{ NULL: 0, NEEDED: 1, PLTRELSZ: 2, STRTAB: 5, SYMTAB: 6, RELA: 7, RELASZ: 8, RPATH: 15, FLAGS: 30 },
  ...{ FLAGS_1: 0x6ffffffb, VERNEED: 0x6ffffffe },
  /** Of no meaning: the linker passes over it. */
  NOTHING: 0x6000f000,
}
const DF_BIND_NOW = 8n
const DF_1_NOW = 1n
const R = { NONE: 0, ABS64: 1, GLOB_DAT: 6 }

/** A program or library for x86-64. */
class Elf {
  readonly bytes: Buffer
  readonly #loads: { offset: number; address: number; size: number }[] = []
  readonly #entries: { at: number; tag: number; value: number }[] = []

  constructor(bytes: Buffer) {
    this.bytes = bytes
    let dynamic = 0
    for (const at of this.#headers(32, 54)) {
      const type = bytes.readUInt32LE(at)
      const segment = { offset: this.#word(at + 8), address: this.#word(at + 16), size: this.#word(at + 32) }
      if (type === PT.LOAD) this.#loads.push(segment)
      if (type === PT.DYNAMIC) dynamic = segment.offset
    }
    for (let at = dynamic; ; at += 16) {
      const entry = { at, tag: this.#word(at), value: this.#word(at + 8) }
      this.#entries.push(entry)
      if (entry.tag === DT.NULL) break
    }
  }

  /** How many functions it may call of others. */
  get functions(): number {
    return this.#value(DT.PLTRELSZ) / 24
  }

  bindLazily(): void {
    for (const { at, tag } of this.#entries) {
      const flag = tag === DT.FLAGS ? DF_BIND_NOW : tag === DT.FLAGS_1 ? DF_1_NOW : 0n
      if (flag) this.bytes.writeBigUInt64LE(this.bytes.readBigUInt64LE(at + 8) & ~flag, at + 8)
    }
    // The addresses of functions lie in what would be made read-only before.
    for (const at of this.#headers(32, 54))
      if (this.bytes.readUInt32LE(at) === PT.GNU_RELRO) this.bytes.writeUInt32LE(0, at)
  }

  /** Looks for libraries in its own folder first, and so do they: a DT_RPATH, the text in place of the build id. */
  searchOwnFolder(): void {
    const header = Buffer.from([4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 0x47, 0x4e, 0x55, 0])
    const text = this.bytes.indexOf(header) + header.length
    const segment = this.#loads.find(({ offset, size }) => text >= offset && text < offset + size)
    const end = this.#entries.at(-1)
    if (text < header.length || !segment || !end || this.#word(end.at + 16) !== DT.NULL)
      throw new Error('no room for a path in it')
    this.bytes.write('$ORIGIN\0', text, 'latin1')
    const address = text - segment.offset + segment.address
    this.bytes.writeBigUInt64LE(BigInt(DT.RPATH), end.at)
    this.bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(address) - BigInt(this.#value(DT.STRTAB))), end.at + 8)
  }

  /** Gives the libraries that it no longer asks for. */
  dropNeeds(unused: RegExp): string[] {
    const needs = this.#entries.filter(({ tag, value }) => tag === DT.NEEDED && unused.test(this.#name(value)))
    for (const { at } of needs) this.bytes.writeBigUInt64LE(BigInt(DT.NOTHING), at)
    const dropped = needs.map(({ value }) => this.#name(value))
    this.#dropVersions(dropped)
    return dropped
  }

  /** The linker would look for the versions of their symbols. */
  #dropVersions(dropped: readonly string[]): void {
    const first = this.#entries.find(({ tag }) => tag === DT.VERNEED)
    if (!first) return
    let kept: number | undefined
    for (let at = this.#offset(first.value), step = -1; step !== 0; at += step) {
      step = this.bytes.readUInt32LE(at + 12)
      if (!dropped.includes(this.#name(this.bytes.readUInt32LE(at + 4)))) kept = at
      else if (kept !== undefined)
        this.bytes.writeUInt32LE(step && this.bytes.readUInt32LE(kept + 12) + step, kept + 12)
      else {
        first.value += step
        this.bytes.writeBigUInt64LE(BigInt(first.value), first.at + 8)
      }
    }
  }

  /** Leaves the places empty that hold the addresses of these symbols. */
  dropData(symbols: ReadonlySet<string>): void {
    const start = this.#offset(this.#value(DT.RELA))
    const table = this.#offset(this.#value(DT.SYMTAB))
    for (let at = start; at < start + this.#value(DT.RELASZ); at += 24) {
      const type = this.bytes.readUInt32LE(at + 8)
      const symbol = table + 24 * this.bytes.readUInt32LE(at + 12)
      if (type !== R.ABS64 && type !== R.GLOB_DAT) continue
      const isElsewhere = this.bytes.readUInt16LE(symbol + 6) === 0
      if (isElsewhere && symbols.has(this.#name(this.bytes.readUInt32LE(symbol))))
        this.bytes.writeUInt32LE(R.NONE, at + 8)
    }
  }

  *exports(): Generator<string> {
    for (const section of this.#headers(40, 58)) {
      if (this.bytes.readUInt32LE(section + 4) !== SHT_DYNSYM) continue
      const start = this.#word(section + 24)
      for (let at = start; at < start + this.#word(section + 32); at += 24)
        if (this.bytes.readUInt16LE(at + 6) !== 0) yield this.#name(this.bytes.readUInt32LE(at))
    }
  }

  /** Where the headers of segments, or of sections, are. */
  *#headers(where: number, sizeAt: number): Generator<number> {
    const size = this.bytes.readUInt16LE(sizeAt)
    for (let k = 0; k < this.bytes.readUInt16LE(sizeAt + 2); k++) yield this.#word(where) + k * size
  }

  #word(at: number): number {
    return Number(this.bytes.readBigUInt64LE(at))
  }

  #value(tag: number): number {
    return this.#entries.find((entry) => entry.tag === tag)?.value ?? 0
  }

  /** Where in the file an address is. */
  #offset(address: number): number {
    const load = this.#loads.find((l) => address >= l.address && address < l.address + l.size)
    return load ? address - load.address + load.offset : address
  }

  #name(offset: number): string {
    const start = this.#offset(this.#value(DT.STRTAB)) + offset
    return this.bytes.toString('latin1', start, this.bytes.indexOf(0, start))
  }
}
