# The network of fashion-features.cbound as a program, to be counted: raw deflate of what follows these comments. f(s, x): s is a
# fraction whose binary digits are the payload, the 4250 integers by an adaptive code; x are the stored images.
import torch as T,numpy as N
F=T.nn.functional
def f(s,x):
 q=[];c=[1]*5
 for _ in range(4250):
  s*=sum(c);i=0
  while s>=c[i]:s-=c[i];i+=1
  s/=c[i];q+=[i-2];c[i]+=2
 v=x.double()/255;m=[]
 for z in 3,6:
  k=N.r_[-z:z+1]
  for i in range(8):w=(k+1j*k[:,None])/1j**(i/4);g=N.exp(-(w.real**2+abs(w)**2)/.64/z/z);w=g*1j**(4*w.real/z);w-=g*w.sum()/g.sum();m+=[F.conv2d(v+0j,T.tensor((4096*w/(abs(w)**2).sum()**.5).round()/2048)[None,None],padding=z).abs()]
 return F.group_norm(F.avg_pool2d(T.cat(m+[v],1),5),1).flatten(1)@v.new_tensor(q).view(10,-1).T
