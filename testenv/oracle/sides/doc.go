// SPDX-License-Identifier: Apache-2.0

// Package sides makes an oracle.Side of the engine (EngineSide) and of the model of the card (CardSide).
package sides
