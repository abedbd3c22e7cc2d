// Package handover is the agent's part of a hand-over: the protocol by which the agent starts to work for another
// management cluster when its CapstanHost moves there. docs/moving.md describes all actors and states. Here the source
// is the management cluster that the agent works for, and the target is the other one.
//
//	decide     what to do, and whether the agent may accept or change sides (decide.go, pure)
//	accept     prove that the agent can work in the target, and store that on disk as the next enrolment
//	keep       keep the token for the target fresh until the host moves
//	change     find out that the source has let the host go, and change sides
//	enrolment  the files with the next enrolment and the current one
package handover
