/** An item of a HighlightRender. */
export const aHighlightItem = (id = 'm1') => ({
  id,
  type: 'image' as const,
  sourceKey: `org/o/media/${id}/original`,
  cachePrefix: `org/o/media/${id}/pieces/`,
  seconds: 4,
})

/** A HighlightRender as a client sends it. */
export const newHighlightRender = (change: { metadata?: object; spec?: object } = {}) => ({
  apiVersion: 'media.keepsake.dev/v1alpha1',
  kind: 'HighlightRender',
  metadata: { name: 'hlt-1', namespace: 'media', ...change.metadata },
  spec: {
    id: 'hlt_1',
    title: 'Summer',
    items: [aHighlightItem()],
    outputPrefix: 'org/o/highlights/1/v1/',
    ...change.spec,
  },
})
