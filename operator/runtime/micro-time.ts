/** metav1.MicroTime: the API server parses exactly six digits and refuses the three of toISOString(). */
export const microTime = (date: Date): string => date.toISOString().replace('Z', '000Z')
