// SPDX-License-Identifier: Apache-2.0

package sides

// EngineSide makes an oracle.Side of the engine: the product is attached to a host of this
// kernel on a machine's bridge, by the real binary and with its agent running, and the engine runs
// in this process.
