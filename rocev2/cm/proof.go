// SPDX-License-Identifier: Apache-2.0

package cm

// Proof is how far the source address of a message can be believed (docs/run/security.md). A higher one is never
// displaced by a lower one where requests compete for places.
type Proof uint8

// The proofs.
const (
	// Doubtful: the host at the address stamps its packets, and this one has no token of it.
	Doubtful Proof = iota
	// Plain: the host at the address does not stamp its packets, so nothing can be proven.
	Plain
	// Proven: the stamp has the token that only the host at the address was given.
	Proven
)

var proofNames = [...]string{Doubtful: "doubtful", Plain: "plain", Proven: "proven"}

// String is the name of the proof.
func (p Proof) String() string {
	if int(p) < len(proofNames) {
		return proofNames[p]
	}
	return "unknown proof"
}
