import htm from 'htm'
import { h, render } from 'preact'
import { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'

/** Everything that a view needs of the view library. The rest of the page imports it from here. */
export const html = htm.bind(h)
export { render, useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState }

/** The classes that apply: `classes('tile', isChosen && 'chosen')`. */
export const classes = (...names) => names.filter(Boolean).join(' ')

let ids = 0
/** An id for the whole document. The library's own are counted anew in each root, and every dialog is one. */
export const useId = () => useMemo(() => `i${++ids}`, [])
