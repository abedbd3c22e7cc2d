// Package admission tests on a real API server what Capstan's roles and admission policies let hosts, tenants and
// movers write. Each attempt has a positive control: the rightful identity succeeds with the same request.
package admission
