// Earlier names of test/support/api.ts.
export { apiSettings, type StartedApi, startApiOn as startTestApi } from './api.ts'
