// Package agent is the process on every host of the inventory.
//
// It talks to the management cluster's API server, and nobody talks to it, so it works behind any firewall. It may read
// only what is its own: the CapstanHost, the bootstrap Secret and the Lease that carry the host's name.
//
//	enroll     report what the host is (status.agent), get a token of its own, and renew it
//	come back  get another token when all that there are have expired (package enroll)
//	heartbeat  renew the Lease
//	report     keep status.agent as it should be (package report)
//	work       run the bootstrap data of a claim, and clean the host after it (package work)
//	hand over  accept the offer of another management cluster, and go along when the host moves there (package handover)
//
// This package wires these parts. What the agent did is in a journal on disk (package journal), so it may be killed at
// any moment; the API server learns about it by one report, made anew from the journal.
package agent
