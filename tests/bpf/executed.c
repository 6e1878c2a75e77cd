/* SPDX-License-Identifier: Apache-2.0 */
/* What test_exec.c executes, static since there is nothing in its root directory. */
int main(void)
{
	return 0;
}
