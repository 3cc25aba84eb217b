/** Icons of our own. */

import { LabIcon } from '@jupyterlab/ui-components';

/** A square in a circle: the plain square interrupts the kernel. */
export const stopRunIcon = new LabIcon({
  name: 'rlm-jupyter:stop-run',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" viewBox="0 0 24 24">' +
    '<g class="jp-icon3" fill="#616161"><path d="M9 9h6v6H9z"/>' +
    '<path d="M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2a7 7 0 1 1 0 14 7 7 0 0 1 0-14z"/></g></svg>'
});
