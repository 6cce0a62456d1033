// SPDX-License-Identifier: Apache-2.0

// Package validate runs the published congestion controls on experiments whose
// outcome is known, and sets what the simulator says beside what the papers say.
// It is the reason to believe the comparisons of docs/congestion-control.md.
//
// The experiments are data (completions, and the functions of Controls). Networks
// are smaller than the papers': a leaf-spine of 32 or 64 hosts instead of a
// three-tier one of 320, with the same link rates, round trip, buffers and load.
// So magnitudes are compared by ratio with a tolerance, and the order of the
// schemes strictly.
package validate
