import { runCommandLine } from './command-line.ts'

/** `node api/cli.ts --help`: administration that no endpoint offers. */
process.exitCode = await runCommandLine(process.argv.slice(2), {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
})
