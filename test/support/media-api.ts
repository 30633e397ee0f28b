import { startTestApi, type TestApi } from './api.ts'

// Earlier names of test/support/api.ts.
export * from './api.ts'
export type MediaApi = TestApi & { url: string }
export const startMediaApi = async (...args: Parameters<typeof startTestApi>): Promise<MediaApi> => {
  const api = await startTestApi(...args)
  return { ...api, url: api.publicUrl }
}
