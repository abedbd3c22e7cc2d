// Package inventory registers the supplied hosts: a budget of N hosts, host-01 to host-N, shared by the namespaces that
// ask for hosts. Each number is registered in one namespace at a time, so host names are unique for the supplier, and a
// claim never crosses namespaces.
//
// [Look] finds out what namespaces ask for. [Shares] computes how many hosts each should have, and [Decide] computes
// what to do next; both are pure. A [Keeper] carries out the decisions in small steps: it may stop at any moment, and
// the next Keeper continues. The [Register] records which namespace has which number, even while the number moves
// between namespaces.
package inventory

import (
	"fmt"
	"strconv"
	"strings"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Max is the largest budget. The network of local hosts has far more addresses than that.
const Max = 999

// Home is the namespace that always asks for hosts.
const Home = "default"

const prefix = "host-"

// name returns the name of the host with a number.
func name(number int) string { return fmt.Sprintf("%s%02d", prefix, number) }

// numberOf returns the number of a host of the budget. It reports false for other hosts.
func numberOf(host *infrav1.CapstanHost) (int, bool) {
	if host.Spec.Supplier != infrav1.SupplierDock {
		return 0, false
	}
	return parse(host.Name)
}

// parse returns the number in a host name. It reports false if the name is not one of the budget.
func parse(host string) (int, bool) {
	digits, ok := strings.CutPrefix(host, prefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil && number > 0 && name(number) == host
}

// IsOfBudget reports whether a host belongs to the budget, as opposed to an enrolled host.
func IsOfBudget(host *infrav1.CapstanHost) bool {
	_, ours := numberOf(host)
	return ours
}
