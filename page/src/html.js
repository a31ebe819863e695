// Creates markup from tagged templates. An inserted value becomes text or an attribute, but never
// markup.
import htm from 'htm';
import { h } from 'preact';

export const html = htm.bind(h);
