export const anInput = (id = 'm1') => ({
  id,
  type: 'video' as const,
  sourceKey: `org/o/media/${id}/original`,
  outputPrefix: `org/o/media/${id}/v1/`,
})

/** A TranscodeJob as a client sends it. */
export const newTranscodeJob = (change: { metadata?: object; spec?: object } = {}) => ({
  apiVersion: 'media.keepsake.dev/v1alpha1',
  kind: 'TranscodeJob',
  metadata: { name: 'med-1', namespace: 'media', ...change.metadata },
  spec: { inputs: [anInput()], ...change.spec },
})
