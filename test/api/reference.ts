import t from 'tap'
import { startApiOn } from '../support/api.ts'
import { noBrowser, openBrowser } from '../support/browser.ts'
import { testDatabase } from '../support/database.ts'
import { startTestIdentity } from '../support/identity.ts'

t.test('the reference page works in a browser from our own files alone', { skip: noBrowser ?? false }, async (t) => {
  const api = await startApiOn(t, { database: await testDatabase(t), identity: await startTestIdentity(t) })
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  for (const path of ['/docs', '/v1/docs']) {
    const page = await browser.newPage()
    page.setDefaultTimeout(120_000)
    const foreign: string[] = []
    const errors: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(api.publicUrl) && !request.url().startsWith('data:')) foreign.push(request.url())
    })
    page.on('console', (message) => {
      if (message.type() === 'error') errors.push(message.text())
    })
    page.on('pageerror', (error) => void errors.push(error.message))
    await page.goto(api.publicUrl + path)
    const operation = page.locator('#operations-Health-getHealth')
    await operation.click()
    await operation.getByRole('button', { name: 'Try it out' }).click()
    await operation.getByRole('button', { name: 'Execute' }).click()
    const answer = operation.locator('.live-responses-table .response-col_status')
    await answer.getByText('200').first().waitFor()
    t.match((await operation.locator('.live-responses-table').textContent()) ?? '', /"status": "ok"/)
    t.strictSame({ foreign, errors }, { foreign: [], errors: [] }, 'nothing from elsewhere, nothing against the policy')
    await page.close()
  }
})
