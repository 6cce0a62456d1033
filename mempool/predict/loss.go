// SPDX-License-Identifier: Apache-2.0

package predict

// Loss is the mean quantile loss of a network whose weights stay, in parts of the need: the decisions of each
// trace that are made in its period from or later. It is 0 if there is none. It returns ErrConfig or ErrSample.
func Loss(n *Network, cfg Config, traces [][]Sample, from []int) (float64, error) {
	if err := cfg.check(); err != nil {
		return 0, err
	}
	sum, need := 0.0, 0.0
	for i, t := range traces {
		lessons, first, err := lessonsOf(t, cfg.Horizon)
		if err != nil {
			return 0, err
		}
		for at := range lessons {
			if first+at < from[i] {
				continue
			}
			l := &lessons[at]
			SetTau(l.inputs[:], cfg.Tau)
			pages, _ := allocation(l.last, l.spread, n.Output(l.inputs[:]))
			loss, _ := pinballMean(l.needs, pages, cfg.Tau)
			sum += loss
			for _, v := range l.needs {
				need += v / float64(len(l.needs))
			}
		}
	}
	if need == 0 {
		return 0, nil
	}
	return sum / need, nil
}

// lessonsOf is appendLessons of one trace, and the period of the first lesson.
func lessonsOf(trace []Sample, horizon int) ([]lesson, int, error) {
	list, err := appendLessons(nil, trace, horizon)
	return list, trainWarmup, err
}
