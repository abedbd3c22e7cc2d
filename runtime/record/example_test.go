package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/runtime/record"
)

func Example() {
	directory, err := os.MkdirTemp("", "journal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "hooks.jsonl")

	journal, err := record.Open(path, record.DefaultSize)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer journal.Close()
	// In a management plane this is the Observer of the client.
	if err := journal.Append(record.Call{
		Time: time.Now(), Hook: "hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate", Extension: "capstan",
		Handler: "capacity",
		Object:  record.Object{Kind: "Cluster", Namespace: "default", Name: "blue"},
		Answer:  record.Blocked, RetryAfter: 5 * time.Second, Message: "cluster needs 3 hosts, 1 of 8 is free (7 claimed)",
	}); err != nil {
		fmt.Println(err)
		return
	}

	calls, err := record.Read(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, call := range calls {
		fmt.Println(call.Answer, call.Object.Name, call.Message)
	}
	// Output: Blocked blue cluster needs 3 hosts, 1 of 8 is free (7 claimed)
}
