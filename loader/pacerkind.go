// SPDX-License-Identifier: Apache-2.0

package loader

import "github.com/softroce/softroce-xdp/loader/pacer"

// PacerKind is a pacer of the kernel stack's packets, by its name on the command line and in the state
// file.
type PacerKind = pacer.Kind

// Pacers.
const (
	PacerAuto   = pacer.Auto   // the first of PacerEDT and PacerHTB that works
	PacerEDT    = pacer.EDT    // fq keeps a packet until its departure time
	PacerHTB    = pacer.HTB    // an HTB class for each destination
	PacerPolice = pacer.Police // packets above the rate are dropped
	PacerNone   = pacer.None   // nothing is paced
)
