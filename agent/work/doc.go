// Package work does what the host's API object asks the agent for, one task at a time: run the bootstrap data of a
// claim, or clean the host after it.
//
//	decide     what the host asks for, and whether it is done according to the journal (decide.go, pure)
//	work       start the task, stop one that the host no longer asks for, retry later (work_linux.go)
//	bootstrap  get the data and run it (bootstrap_linux.go; package bootstrap has the steps)
//	clean      clean the host (clean_linux.go; package clean has the steps)
//	results    report what the journal records, and remove journals that nobody needs (results_linux.go)
package work
