// SPDX-License-Identifier: Apache-2.0

package seal

// End is one end of an encrypted queue pair: it seals what this end sends, and opens what it receives.
type End struct {
	Sealer *Sealer
	Opener *Opener
}

// NewEnd makes an end of its keys. Keys must be given to one End only.
func NewEnd(k Keys, l Limits) (*End, error) {
	s, err := NewSealer(k.Suite, k.Send, l)
	if err != nil {
		return nil, err
	}
	o, err := NewOpener(k.Suite, k.Receive, l)
	if err != nil {
		return nil, err
	}
	return &End{s, o}, nil
}
