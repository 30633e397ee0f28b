import * as z from 'zod'
import { workerPart } from '../../worker/feature-worker.ts'
import { timelineConsumer } from './consumer.ts'

export const timelineWorker = workerPart(z.object({}), () => ({ consumers: [timelineConsumer] }))
