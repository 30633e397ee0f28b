import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { WEB } from '../../lib/runtime/web-files.ts'

/** Safari 16.4, Chrome 111 and Firefox 115 show the page: what is younger is not in it. */

const YOUNGER: [string, RegExp][] = [
  [
    '.js',
    /\b(?:Map|Object)\.groupBy\b|\bPromise\.(?:withResolvers|try)\b|\bArray\.fromAsync\b|\bURL\.(?:parse|canParse)\b/,
  ],
  ['.js', /\.(?:symmetricDifference|union|intersection|difference|isSubsetOf|isSupersetOf|isDisjointFrom)\(/],
  ['.js', /\.(?:values|keys|entries)\(\)\.(?:map|filter|take|drop|flatMap|reduce|toArray|some|every|find)\(/],
  [
    '.js',
    /\bAbortSignal\.any\b|\.(?:showPopover|hidePopover|togglePopover|checkVisibility|moveBefore)\(|\/[a-z]*v[a-z]*\.(?:exec|test)\(/,
  ],
  ['.css', /light-dark\(|@starting-style|@scope|@layer|@property|@position-try|interpolate-size|&/],
  // A list with one selector that is not known is left out whole.
  ['.css', /^[^{\n]*,[^{\n]*:has\(|^[^{\n]*:has\([^{\n]*\),[^{\n]*\{/m],
]

t.test('the page uses nothing that the oldest supported browsers lack', async (t) => {
  const names = readdirSync(WEB, { recursive: true, encoding: 'utf8' }).filter((name) => !name.startsWith('vendor'))
  for (const name of names.filter((one) => /\.(?:js|css)$/.test(one))) {
    const text = readFileSync(join(WEB, name), 'utf8').replace(/^\s*(?:\/?\*|\/\/).*$/gm, '')
    for (const [ending, pattern] of YOUNGER) {
      if (name.endsWith(ending)) t.notOk(pattern.exec(text)?.[0], `${name}: ${pattern.exec(text)?.[0]}`)
    }
  }
})
