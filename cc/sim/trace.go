// SPDX-License-Identifier: Apache-2.0

package sim

// Tracer records how long packets wait at a port.
type Tracer struct{ Delay Histogram }

func (t *Tracer) departed(waited tick) { t.Delay.Add(waited.ns()) }
