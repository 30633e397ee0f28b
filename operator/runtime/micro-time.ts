/** metav1.MicroTime: the API server accepts exactly six fractional digits, not the three of toISOString(). */
export const microTime = (date: Date): string => date.toISOString().replace('Z', '000Z')
