// Package agent is the program that runs on every host of the inventory.
//
// It connects to the management cluster's API server, and nothing connects to it, so it works behind any firewall. It
// may read only objects that are named after the host: the CapstanHost, its Lease, and the Secrets with bootstrap data
// and with an offer.
//
//	enroll     report what the host is (status.agent), get a token of its own, and renew it
//	come back  get another token when all existing ones have expired (package enroll)
//	heartbeat  renew the Lease
//	report     keep status.agent up to date (package report)
//	work       run the bootstrap data of a claim, and clean the host after it (package work)
//	hand over  accept the offer of another management cluster, and follow when the host moves there (package handover)
//
// This package connects these parts. A journal on disk (package journal) records what the agent did, so the agent may
// be killed at any moment. The agent sends the API server a single report, which it rebuilds from the journal.
package agent
