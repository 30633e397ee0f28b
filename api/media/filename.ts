const LONGEST = 255
// Control characters end headers and log lines; the others turn the reading direction, so that `gpj.exe` reads `exe.jpg`.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is its purpose
const UNWANTED = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** The last part of whatever path a client sent, fit to be shown and put into a header. Never used as a path here. */
export function cleanFilename(given: string): string {
  const base = given.toWellFormed().replace(UNWANTED, '').normalize('NFC').split(/[/\\]/).at(-1)?.trim() ?? ''
  const characters = [...base]
  if (base === '' || /^\.+$/.test(base)) return 'file'
  if (characters.length <= LONGEST) return base
  // The end of a name says what it is: the middle gives way.
  const extension = /\.[A-Za-z0-9]{1,10}$/.exec(base)?.[0] ?? ''
  return characters.slice(0, LONGEST - extension.length).join('') + extension
}

/** `attachment` with the name for old and new clients (RFC 6266, RFC 8187). */
export function attachment(filename: string): string {
  const ascii = filename.replace(/[^\x20-\x7e]/g, '_').replace(/["\\%]/g, '_')
  const encoded = encodeURIComponent(filename).replace(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}
