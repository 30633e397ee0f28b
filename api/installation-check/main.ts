import { loadConfig } from '../../lib/runtime/config.ts'
import { BusConfig, openEventBus } from '../../lib/runtime/event-bus/open.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { openObjectStore, StoreConfig } from '../../lib/runtime/object-store/open.ts'
import { CheckConfig, checksOf, runChecks } from './checks.ts'

/**
 * What `helm test` runs: prints `ok: …` or `FAILED: …` for each check. The exit status is the number that failed.
 * It is a program of the image, not a script in the chart, so that the compiler sees what it calls.
 */
const config = loadConfig(CheckConfig)
const store = await openObjectStore(loadConfig(StoreConfig))
const bus = await openEventBus(loadConfig(BusConfig), openLog({ program: 'test', level: 'silent' }))
const failed = await runChecks(checksOf(config, store, bus), {
  seconds: config.CHECK_SECONDS,
  print: (line) => process.stdout.write(`${line}\n`),
})
await Promise.all([store.close(), bus.close()])
process.exitCode = failed
