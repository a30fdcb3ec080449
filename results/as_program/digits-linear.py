# The network of digits-linear.cbound as a program, to be counted: raw deflate of what follows these comments. f(s, x): s is a
# fraction whose binary digits are the payload, the 640 integers by an adaptive code; x are the stored images.
import torch as T
def f(s,x):
 q=[];c=[1]*5
 for _ in range(640):
  s*=sum(c);i=0
  while s>=c[i]:s-=c[i];i+=1
  s/=c[i];q+=[i-2.];c[i]+=2
 return x.flatten(1)/16@T.tensor(q).view(10,-1).T
