// Package inventory keeps the supplied hosts registered: a budget of N hosts, host-01 to host-N, shared by the
// namespaces that ask for hosts. Each number is registered in one namespace at a time, so a host's name is unique
// among all that the supplier makes, and a claim never crosses a namespace.
//
// [Look] finds out what namespaces ask for. [Shares] says how many hosts each shall have, [Decide] what to do for
// that; both are pure. A [Keeper] does it, one small step after the other: it may end at any moment, and the next one
// goes on. The [Register] knows which namespace has which number, also while that number is between two namespaces.
package inventory

import (
	"fmt"
	"strconv"
	"strings"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Max is the largest budget: as many hosts as the network of local hosts has addresses for, by far.
const Max = 999

// Home is the namespace that always asks for hosts.
const Home = "default"

const prefix = "host-"

// name returns the name of the host with a number.
func name(number int) string { return fmt.Sprintf("%s%02d", prefix, number) }

// numberOf returns the number of a host of the budget.
func numberOf(host *infrav1.CapstanHost) (int, bool) {
	if host.Spec.Supplier != infrav1.SupplierDock {
		return 0, false
	}
	return parse(host.Name)
}

// parse returns the number in the name of a host.
func parse(host string) (int, bool) {
	digits, ok := strings.CutPrefix(host, prefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil && number > 0 && name(number) == host
}

// IsOfBudget reports whether a host is one of the budget's, and not one that enrolled.
func IsOfBudget(host *infrav1.CapstanHost) bool {
	_, ours := numberOf(host)
	return ours
}
