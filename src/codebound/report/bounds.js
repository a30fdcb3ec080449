/* The bounds of a page at another delta. The formulas are those of docs/why.md and docs/references.md (C-2, C-15); a test
   compares them with the library. A term is {law, count, n, bits, share}; a bound is the sum of its terms, at most 1. */
const bounds = (() => {
  "use strict";
  const LOG_SQRT_2PI = 0.5 * Math.log(2 * Math.PI);

  /* ln n! - ln(sqrt(2 pi n) (n/e)^n) */
  function stirlingError(n) {
    if (n < 16) {
      let logFactorial = 0;
      for (let i = 2; i <= n; i++) logFactorial += Math.log(i);
      return logFactorial - (n + 0.5) * Math.log(n) + n - LOG_SQRT_2PI;
    }
    const x = 1 / (n * n);
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x / 1680))) / n;
  }

  /* x ln(x/mean) - x + mean, also where the two are close */
  function deviance(x, mean, difference) {
    const u = difference / mean;
    if (Math.abs(u) > 0.1) return x === 0 ? mean : x * Math.log(x / mean) - difference;
    let total = 0, power = u * u;
    for (let i = 2; i < 20; i++) {
      total += power / (i * (i - 1));
      power *= -u;
    }
    return mean * total;
  }

  /* ln P(Bin(n, p) = k), for 0 <= k < n */
  function logMass(k, n, p) {
    if (k === 0) return n * Math.log1p(-p);
    const difference = k - n * p;
    const exponent = deviance(k, n * p, difference) + deviance(n - k, n * (1 - p), -difference);
    const errors = stirlingError(n) - stirlingError(k) - stirlingError(n - k);
    return errors - LOG_SQRT_2PI + 0.5 * Math.log(n / (k * (n - k))) - exponent;
  }

  /* P(Bin <= k) / P(Bin = k), the sum of falling ratios */
  function tailSeries(k, n, p) {
    const odds = (1 - p) / p;
    let total = 1, term = 1;
    for (let i = 0; i < k; i++) {
      const ratio = (k - i) / (n - k + 1 + i) * odds;
      term *= ratio;
      total += term;
      if (ratio < 1 && term * ratio <= 1e-17 * (1 - ratio) * total) break;
    }
    return total;
  }

  /* the p above which isAbove holds, from above; between k/n and 1 */
  function root(k, n, isAbove) {
    let low = k / n, high = 1;
    for (;;) {
      const middle = 0.5 * (low + high);
      if (!(low < middle && middle < high)) return high;
      if (isAbove(middle)) high = middle; else low = middle;
    }
  }

  /* max of p with P(Bin(n, p) <= k) >= exp(-nats) */
  function binomial(k, n, nats) {
    if (k >= n) return 1;
    return root(k, n, (p) => logMass(k, n, p) + Math.log(tailSeries(k, n, p)) <= -nats);
  }

  /* root of n p P(Bin = k) = exp(-nats) P(Bin > k) */
  function picked(k, n, nats) {
    if (k >= n) return 1;
    return root(k, n, (p) => {
      const price = Math.log(n * p) + nats, tail = Math.log(tailSeries(k, n, p));
      const larger = Math.max(price, tail);
      return -logMass(k, n, p) >= larger + Math.log1p(Math.exp(Math.min(price, tail) - larger));
    });
  }

  const laws = { binomial, picked };

  function limit(term, delta) {
    return laws[term.law](term.count, term.n, term.bits * Math.LN2 - Math.log(delta * term.share));
  }

  function at(terms, delta) {
    return Math.min(1, terms.reduce((total, term) => total + limit(term, delta), 0));
  }

  /* a bound in per cent, rounded up */
  function percent(value) {
    return (Math.ceil(Math.min(1, value * (1 + 1e-9)) * 1e4) / 100).toFixed(2) + " %";
  }

  return { at, percent };
})();
