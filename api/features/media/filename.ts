import { create } from 'content-disposition'
import { fitText } from '../../requests/text.ts'

const LONGEST = 255
// Control characters end headers and log lines; the others change the text direction: `gpj.exe` reads `exe.jpg`.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is its purpose
const UNWANTED = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** The last segment of a path that a client sent, safe to display and to put into a header. Never used as a path. */
export function cleanFilename(given: string): string {
  const base = (given.split(/[/\\]/).at(-1) ?? '').replace(UNWANTED, '').trim()
  const name = fitText(base, LONGEST)
  if (name === '' || /^\.+$/.test(name)) return 'file'
  // The extension shows the type: cut the name before it.
  const extension = /\.[A-Za-z0-9]{1,10}$/.exec(base)?.[0] ?? ''
  if (name.endsWith(extension)) return name
  return [...name].slice(0, LONGEST - extension.length).join('') + extension
}

/** `attachment` with the name for old and new clients (RFC 6266, RFC 8187). */
export const attachment = (filename: string): string => create(filename.toWellFormed())
