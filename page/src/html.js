// Markup from tagged texts: every value that is put in becomes text or an attribute, never markup.
import htm from 'htm';
import { h } from 'preact';

export const html = htm.bind(h);
